"""Hook events: from what an agent CLI sends to the event that is stored."""
