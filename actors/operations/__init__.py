"""What people do with a cluster, each once, for the command line and for HTTP."""
