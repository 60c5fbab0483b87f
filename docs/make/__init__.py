"""Make the pages and pictures of the documentation that come from the code."""
