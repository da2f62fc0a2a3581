//! The xDS protocol, item by item, over real gRPC: the cases of a public conformance harness, and the other items.

mod delta;
mod notation;
mod order;
mod script;
mod sotw;
mod wire;
