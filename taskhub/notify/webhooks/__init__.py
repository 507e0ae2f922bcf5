"""Webhooks, as Standard Webhooks (https://www.standardwebhooks.com) say: signed JSON, by POST."""
