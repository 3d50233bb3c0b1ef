"""Files of koordinator's descheduler: read as they are, and made a policy and settings of ours."""
