//! What a client needs to know of a JWT: when it expires. Whether it is genuine is for the server to say.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use http::HeaderValue;
use serde::Deserialize;

/// A token, as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// `Bearer …`; its debug form does not show it.
    pub(super) header: HeaderValue,
    /// From then on it is of no use: half a minute before it says, for clocks that differ and for the way to the server.
    pub(super) expires: SystemTime,
}

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

/// Reads a token. The fault does not quote it: it is a secret.
pub(super) fn parse(text: &str) -> Result<Token, &'static str> {
    let parts: Vec<_> = text.split('.').collect();
    let [_, claims, _] = parts[..] else {
        return Err("is no JWT: it does not have three parts");
    };
    let claims = BASE64.decode(claims);
    let claims = claims.map_err(|_| "is no JWT: its claims are not in base64url")?;
    let claims: Claims = serde_json::from_slice(&claims)
        .map_err(|_| "is of no use: its claims are no JSON that says when it expires (exp)")?;
    let expires = Duration::try_from_secs_f64(claims.exp)
        .ok()
        .and_then(|exp| SystemTime::UNIX_EPOCH.checked_add(exp))
        .and_then(|at| at.checked_sub(MARGIN))
        .ok_or("is of no use: it expires at no possible time (exp)")?;
    let mut header = HeaderValue::try_from(format!("Bearer {text}"))
        .map_err(|_| "is no JWT: it has characters that no header may have")?;
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
    fn c34_a_token_says_when_it_expires() {
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
    fn c34_what_does_not_say_when_it_expires_is_no_token() {
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
