//! The protocol, item by item, over real gRPC: what a public conformance harness would ask, and the rest of it.

mod delta;
mod notation;
mod order;
mod sotw;
mod talk;
mod wire;
