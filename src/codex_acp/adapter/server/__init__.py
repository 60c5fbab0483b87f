"""The app-server of an adapter: started, lost, replaced, and what it reports to everybody."""
