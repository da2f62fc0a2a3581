//! The views: which resources are valid, and what is said of those that are not.

mod assignment;
mod cluster;
mod listener;
mod route;
mod v2;
