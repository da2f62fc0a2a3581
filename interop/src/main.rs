//! interop.
fn main() {}
