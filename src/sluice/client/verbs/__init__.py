"""The verbs of the command line that talk to brokers. Importing these is cheap: the client is loaded when a verb runs."""
