//! oxds.
fn main() {}
