//! Scenarios of `spec/distributed.md`: the machines for etcd, against a model of it.

mod follower;
mod history;
mod model;
mod model_tests;
mod published;
mod publisher;
mod rollback;
