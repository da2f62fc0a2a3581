//! Expiry of a JWT. The client reads nothing else; the server verifies the signature.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use http::HeaderValue;
use serde::Deserialize;

/// A token in the form in which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Header value `Bearer …`; its debug form hides the token.
    pub(super) header: HeaderValue,
    /// Time from which the token is not used: 30 s before its `exp`, to allow for clock skew and network delay.
    pub(super) expires: SystemTime,
}

/// Safety margin before `exp`.
const MARGIN: Duration = Duration::from_secs(30);

/// JWTs have no padding (RFC 7515 §2); some writers add it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Deserialize)]
struct Claims {
    /// Seconds since 1970, perhaps with a fraction (RFC 7519 §2).
    exp: f64,
}

/// Parses a token. The error does not quote it, because a token is a secret.
pub(super) fn parse(text: &str) -> Result<Token, &'static str> {
    let parts: Vec<_> = text.split('.').collect();
    let [_, claims, _] = parts[..] else {
        return Err("is not a JWT: must have three parts");
    };
    let claims = BASE64.decode(claims);
    let claims = claims.map_err(|_| "is not a JWT: its claims must be base64url")?;
    let claims: Claims = serde_json::from_slice(&claims)
        .map_err(|_| "is invalid: its claims must be JSON with the expiry time (exp)")?;
    let expires = Duration::try_from_secs_f64(claims.exp)
        .ok()
        .and_then(|exp| SystemTime::UNIX_EPOCH.checked_add(exp))
        // gRFC A97: a token counts as expired 30 s before its `exp`.
        .and_then(|at| at.checked_sub(MARGIN))
        .ok_or("is invalid: its expiry time (exp) is out of range")?;
    let mut header = HeaderValue::try_from(format!("Bearer {text}"))
        .map_err(|_| "is not a JWT: it has characters that a header must not contain")?;
    // Keeps the token out of debug output and of the HPACK table.
    header.set_sensitive(true);
    Ok(Token { header, expires })
}

#[cfg(test)]
pub(super) fn made(claims: &str) -> String {
    let part = |text: &str| base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        part(r#"{"alg":"none"}"#),
        part(claims),
        part("signature")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c34_token_expiry_is_read_from_exp() {
        for claims in [r#"{"exp":1000}"#, r#"{"exp":1000.0,"sub":"ü"}"#] {
            let text = made(claims);
            let token = parse(&text).unwrap();
            assert_eq!(token.header, format!("Bearer {text}"));
            assert_eq!(
                token.expires,
                SystemTime::UNIX_EPOCH + Duration::from_secs(970)
            );
            assert!(!format!("{token:?}").contains(&text), "it would be logged");
        }
    }

    #[test]
    fn c34_token_without_valid_exp_is_rejected() {
        let token = |claims| made(claims);
        for text in [
            String::new(),
            "token".to_owned(),
            "a.b".to_owned(),
            "a.b.c.d".to_owned(),
            "a.?.c".to_owned(),
            token("not JSON"),
            token("{}"),
            token(r#"{"exp":"1000"}"#),
            token(r#"{"exp":-1}"#),
            token(r#"{"exp":1e300}"#),
            format!("{}\n", token(r#"{"exp":1000}"#)),
        ] {
            let fault = parse(&text).unwrap_err();
            assert!(fault.starts_with("is "), "{text}: {fault}");
        }
    }
}
