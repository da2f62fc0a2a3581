//! Policy for fields that the descriptors do not know.

/// Policy for fields that the descriptors of a message do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownFields {
    /// They are kept, unless their number has a meaning in the other major.
    #[default]
    Keep,
    /// They are dropped and reported: the other major does not know them.
    Report,
}
