//! Scenarios of the publisher: writers before a model of etcd.

mod atomic;
mod concurrent;
mod content;
mod foreign;
pub(super) mod history;
mod killed;
mod pages;
mod random;
mod replicas;
pub(super) mod rig;
mod unknown;
