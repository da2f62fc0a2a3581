//! JSON Web Tokens for tests.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a JWT that expires after this many seconds. `subject` makes it distinct; its signature is empty.
#[must_use]
pub fn jwt(subject: &str, seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let expires = now.map_or(0, |now| now.as_secs()) + seconds;
    let claims = format!(r#"{{"sub":"{subject}","exp":{expires}}}"#);
    format!("e30.{}.c2ln", base64url(claims.as_bytes()))
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |chunk: &[u8]| {
        let bits = chunk
            .iter()
            .fold(0, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        let digit =
            move |index: usize| char::from(DIGITS[(bits >> (18 - 6 * index)) as usize & 63]);
        (0..=chunk.len()).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}
