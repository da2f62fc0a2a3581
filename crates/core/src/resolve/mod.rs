//! LDS → RDS → CDS → EDS into one configuration.
