//! SPIFFE IDs: `spiffe://trust-domain/path` (SPIFFE-ID §2).

/// Maximum length of an ID, in bytes (SPIFFE-ID §2.3).
const MAX_ID_BYTES: usize = 2048;
/// Maximum length of a trust domain, in bytes (SPIFFE-ID §2.3).
const MAX_DOMAIN_BYTES: usize = 255;

/// Returns the trust domain of a SPIFFE ID.
///
/// # Errors
/// The rule that the ID breaks, as a clause.
pub(super) fn trust_domain(id: &str) -> Result<&str, &'static str> {
    if id.len() > MAX_ID_BYTES {
        return Err("is too long");
    }
    // RFC 3986: the scheme of a URI is case-insensitive.
    let (scheme, rest) = id.split_once("://").ok_or("has no scheme")?;
    if !scheme.eq_ignore_ascii_case("spiffe") {
        return Err("has a scheme other than spiffe");
    }
    let (domain, path) = match rest.split_once('/') {
        Some((domain, path)) => (domain, Some(path)),
        None => (rest, None),
    };
    check_domain(domain)?;
    for segment in path.into_iter().flat_map(|path| path.split('/')) {
        check_segment(segment)?;
    }
    Ok(domain)
}

/// Checks the name of a trust domain.
pub(super) fn check_domain(domain: &str) -> Result<(), &'static str> {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    match domain {
        "" => Err("has no trust domain"),
        _ if domain.len() > MAX_DOMAIN_BYTES => Err("has a trust domain that is too long"),
        _ if !domain.bytes().all(fits) => {
            Err("has a trust domain with other characters than a-z, 0-9, '.', '-' and '_'")
        }
        _ => Ok(()),
    }
}

fn check_segment(segment: &str) -> Result<(), &'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match segment {
        "" => Err("has an empty segment in its path"),
        "." | ".." => Err("has a relative segment in its path"),
        _ if !segment.bytes().all(fits) => {
            Err("has a path with other characters than letters, digits, '.', '-' and '_'")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c258_id_needs_trust_domain_and_normalized_path() {
        assert_eq!(trust_domain("spiffe://prod/ns/a/sa/b"), Ok("prod"));
        assert_eq!(
            trust_domain("SPIFFE://prod.example-1_x"),
            Ok("prod.example-1_x")
        );
        assert!(trust_domain(&format!("spiffe://{}", "a".repeat(255))).is_ok());
        for wrong in [
            "",
            "prod",
            "https://prod/a",
            "spiffe://",
            "spiffe:///a",
            "spiffe://Prod/a",
            "spiffe://me@prod/a",
            "spiffe://prod:80/a",
            "spiffe://prod/",
            "spiffe://prod//a",
            "spiffe://prod/a/../b",
            "spiffe://prod/./a",
            "spiffe://prod/a?b",
            "spiffe://prod/a#b",
            "spiffe://prod/%61",
            &format!("spiffe://{}", "a".repeat(256)),
            &format!("spiffe://a/{}", "a".repeat(2048)),
        ] {
            assert!(trust_domain(wrong).is_err(), "{wrong}");
        }
    }
}
