"""What a plan is and why, for people and programs: text, JSON and one page of HTML."""
