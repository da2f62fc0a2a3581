//! The follower against a model cluster that breaks each guarantee of etcd on command.
//!
//! After every update the world checks that the served state is the union of states that were published.

mod cluster;
mod faults;
mod loss;
mod property;
mod publish;
mod start;
mod union;
mod values;
mod world;
mod writer;
