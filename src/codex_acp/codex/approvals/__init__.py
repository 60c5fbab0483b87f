"""What a server request really is, and what may answer an approval without a person."""
