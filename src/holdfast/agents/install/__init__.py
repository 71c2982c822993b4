"""Installing hooks: edit each agent CLI's configuration file so that its hooks reach the receiver, and undo it."""
