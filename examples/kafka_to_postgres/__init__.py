"""Orders from Kafka to PostgreSQL, with corrections and an alert on the lag of the watermark."""
