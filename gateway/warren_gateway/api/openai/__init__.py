"""Routes in the manner of OpenAI's API."""
