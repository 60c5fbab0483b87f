"""What of the documentation is made of the code: pages in its own words, and pictures."""
