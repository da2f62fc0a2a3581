//! The nodes of a control plane: their state, the changes that are held back from them, and the answers that are
//! missing.

pub(super) mod held;
pub(super) mod missing;
pub(super) mod report;
