//! Views: valid resources, and the errors of invalid ones.

mod assignment;
mod cluster;
mod listener;
mod route;
mod v2;
