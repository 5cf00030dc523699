"""What a long-lived service needs: clock, lock, journal, sd_notify."""
