//! oxds-channel.
