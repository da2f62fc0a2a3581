//! Scenarios of the publisher: writers before a model of etcd.

mod atomic;
mod concurrent;
mod content;
mod foreign;
mod history;
mod killed;
mod random;
mod replicas;
mod rig;
mod unknown;
