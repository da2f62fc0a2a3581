//! LDS → RDS → CDS → EDS into one configuration.

mod config;

pub use config::{
    ClusterConfig, ClusterEntry, CompiledAction, CompiledRoute, RouteTable, XdsConfig,
};
