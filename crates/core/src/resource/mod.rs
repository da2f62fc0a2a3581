//! Parse-don't-validate views of the resources a data plane uses.
