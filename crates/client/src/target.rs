//! `xds:` targets: which listener a channel asks for, and by which authority its RPCs are routed.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::bootstrap::Bootstrap;

/// What RFC 3986 lets stand in a path segment (gRFC A47).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');
/// And in an authority, where an IPv6 address may stand in brackets.
const AUTHORITY: &AsciiSet = &SEGMENT.remove(b'[').remove(b']');

/// `xds:service`, `xds:///service` or `xds://authority/service`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    authority: Option<String>,
    service: String,
}

/// Why a target leads nowhere. The caller is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// It is of another form.
    #[error("{target:?} is no xDS target: {reason}")]
    Malformed {
        /// The target.
        target: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The bootstrap does not know its authority; the default servers are not asked instead (C-38).
    #[error("{target}: unknown authority {authority:?}: the bootstrap's authorities are {known:?}")]
    UnknownAuthority {
        /// The target.
        target: String,
        /// Its authority.
        authority: String,
        /// Those that the bootstrap has.
        known: Vec<String>,
    },
}

impl Target {
    /// Reads a target. No port is added or defaulted (C-37).
    ///
    /// # Errors
    /// It is of another form.
    pub fn parse(target: &str) -> Result<Self, TargetError> {
        let malformed = |reason| TargetError::Malformed {
            target: target.to_owned(),
            reason,
        };
        let rest = target
            .strip_prefix("xds:")
            .ok_or_else(|| malformed("its scheme is not xds"))?;
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
            None => ("", rest.strip_prefix('/').unwrap_or(rest)),
        };
        if path.is_empty() {
            return Err(malformed("it names no service"));
        }
        // A target is a URI (RFC 3986): what is escaped in it means what it stands for.
        let decode = |part: &str| {
            let text = percent_decode_str(part).decode_utf8();
            text.map(Cow::into_owned)
                .map_err(|_| malformed("what is percent-encoded is not UTF-8"))
        };
        Ok(Self {
            authority: Some(decode(authority)?).filter(|authority| !authority.is_empty()),
            service: decode(path)?,
        })
    }

    /// What virtual hosts are chosen by, and the `:authority` of RPCs (C-41).
    #[must_use]
    pub fn data_plane_authority(&self) -> String {
        utf8_percent_encode(&self.service, AUTHORITY).to_string()
    }

    /// The name of the listener to ask for (gRFC A47).
    ///
    /// # Errors
    /// The bootstrap does not know the target's authority.
    pub fn listener_name(&self, bootstrap: &Bootstrap) -> Result<String, TargetError> {
        let Some(authority) = &self.authority else {
            return Ok(fill(&bootstrap.listener_template, &self.service));
        };
        let Some(known) = bootstrap.authorities.get(authority) else {
            return Err(TargetError::UnknownAuthority {
                target: self.to_string(),
                authority: authority.clone(),
                known: bootstrap.authorities.keys().cloned().collect(),
            });
        };
        Ok(match &known.listener_template {
            Some(template) => fill(template, &self.service),
            None => {
                let authority = encode(authority);
                fill(
                    &format!("xdstp://{authority}/envoy.config.listener.v3.Listener/%s"),
                    &self.service,
                )
            }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "xds://{}/{}",
            self.authority.as_deref().unwrap_or_default(),
            self.service
        )
    }
}

/// Every `%s` is replaced (C-32); in new-style names the service is encoded, but for its slashes (C-39, C-40).
pub(crate) fn fill(template: &str, service: &str) -> String {
    match template.starts_with("xdstp:") {
        false => template.replace("%s", service),
        true => {
            let segments: Vec<String> = service.split('/').map(encode).collect();
            template.replace("%s", &segments.join("/"))
        }
    }
}

/// Encodes what may not stand in a path segment.
pub(crate) fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bootstrap(json: &str) -> Bootstrap {
        Bootstrap::from_json(json).unwrap()
    }

    const PLAIN: &str =
        r#"{"xds_servers":[{"server_uri":"cp:1","channel_creds":[{"type":"insecure"}]}]}"#;

    #[test]
    fn c37_short_and_long_form_name_the_same_listener_without_a_port() {
        for target in ["xds:shop", "xds:///shop", "xds:/shop"] {
            let name = Target::parse(target)
                .unwrap()
                .listener_name(&bootstrap(PLAIN))
                .unwrap();
            assert_eq!(name, "shop", "{target}");
        }
    }

    #[test]
    fn c38_an_unknown_authority_is_an_error_and_not_the_default_servers() {
        let error = Target::parse("xds://a/shop")
            .unwrap()
            .listener_name(&bootstrap(PLAIN))
            .unwrap_err();
        assert!(
            error.to_string().contains("unknown authority \"a\""),
            "{error}"
        );
    }

    #[test]
    fn c41_the_data_plane_authority_is_the_path_percent_encoded() {
        for target in ["xds:///a/b c", "xds:///a/b%20c", "xds:a%2fb c"] {
            let target = Target::parse(target).unwrap();
            assert_eq!(target.data_plane_authority(), "a%2Fb%20c", "{target}");
        }
    }

    #[test]
    fn c31_c39_an_authority_without_a_template_has_xdstp_listeners() {
        let json = r#"{"authorities":{"a b":{}},
            "xds_servers":[{"server_uri":"cp:1","channel_creds":[{"type":"insecure"}]}]}"#;
        let name = Target::parse("xds://a b/x/y z")
            .unwrap()
            .listener_name(&bootstrap(json))
            .unwrap();
        assert_eq!(
            name,
            "xdstp://a%20b/envoy.config.listener.v3.Listener/x/y%20z"
        );
    }

    #[test]
    fn c32_c40_old_style_templates_take_the_service_as_it_is_everywhere() {
        let json = r#"{"client_default_listener_resource_name_template":"%s|%s",
            "xds_servers":[{"server_uri":"cp:1","channel_creds":[{"type":"insecure"}]}]}"#;
        let name = Target::parse("xds:///a b")
            .unwrap()
            .listener_name(&bootstrap(json))
            .unwrap();
        assert_eq!(name, "a b|a b");
    }

    #[test]
    fn targets_of_another_form_are_refused() {
        for (target, why) in [
            ("dns:///a", "scheme"),
            ("xds:", "no service"),
            ("xds://a", "no service"),
            ("xds:///%ff", "not UTF-8"),
        ] {
            let error = Target::parse(target).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
