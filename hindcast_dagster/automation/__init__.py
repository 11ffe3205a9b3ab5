"""What an operator launches and what starts by itself: jobs, sensors, schedules. Nothing here spends money unasked."""
