"""Hook events: from the payload that an agent CLI sends to the event that is stored."""
