"""The controller: one actor a broker, one of them active."""
