//! Service `etcdserverpb.Auth`: tokens for users.

use prost::Message;

use super::kv::ResponseHeader;

/// Asks for a token.
#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub struct AuthenticateRequest {
    /// Name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Password of the user.
    #[prost(string, tag = "2")]
    pub password: String,
}

/// Answer to [`AuthenticateRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub struct AuthenticateResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The token, for the metadata `token` of further requests.
    #[prost(string, tag = "2")]
    pub token: String,
}

impl std::fmt::Debug for AuthenticateRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthenticateRequest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AuthenticateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthenticateResponse")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}
