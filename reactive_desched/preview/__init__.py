"""What would happen: a picture of a cluster from files or a server, swept without evicting."""
