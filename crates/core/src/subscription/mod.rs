//! What a client asked for: one set of rules for both protocol variants.
