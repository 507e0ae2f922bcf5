"""Channels: how notices reach their receivers, a folder each. A channel knows no database and no schedule.

Workers take notices from the outbox (`domain.notices`) and hand them to a channel (`worker.notices`).
"""
