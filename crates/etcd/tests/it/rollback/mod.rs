//! G-38: one rollback decision of several replicas.

mod property;
mod scenarios;
mod world;
