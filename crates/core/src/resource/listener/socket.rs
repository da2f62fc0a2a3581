//! Socket listener: what a server serves on an address (gRFC A36).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::{
    Address, address::Address as AddressKind, socket_address::PortSpecifier,
    socket_address::Protocol,
};
use envoy_types::pb::envoy::config::listener::v3::Listener as ListenerProto;

use super::chain::FilterChain;
use super::chains::FilterChains;
use super::matching::ChainMatch;
use crate::resource::Invalid;
use crate::resource::extension::Extensions;
use crate::resource::invalid::Within;

/// Socket listener: the part of a listener that servers use.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketListener {
    /// IP address, as the resource has it.
    pub address: Box<str>,
    /// TCP port.
    pub port: u16,
    /// Filter chains, of which each connection uses one.
    pub chains: FilterChains,
}

impl SocketListener {
    /// Returns whether the listener is for this address. If not, a server there does not serve (gRFC A36).
    #[must_use]
    pub fn is_for(&self, listening: SocketAddr) -> bool {
        let address = self.address.parse::<IpAddr>();
        address.is_ok_and(|address| address == listening.ip()) && self.port == listening.port()
    }

    pub(super) fn from_proto(
        proto: &ListenerProto,
        extensions: &Extensions,
    ) -> Result<Self, Invalid> {
        let (address, port) = socket_address(proto.address.as_ref()).within("address")?;
        // gRFC A36: both would change the addresses and names by which chains match.
        if !proto.listener_filters.is_empty() {
            return Err(Invalid::new("must be empty").at("listener_filters"));
        }
        if proto.use_original_dst.is_some_and(|set| set.value) {
            return Err(Invalid::new("must not be true").at("use_original_dst"));
        }
        let mut chains = Vec::with_capacity(proto.filter_chains.len());
        let mut matches = Vec::with_capacity(proto.filter_chains.len());
        for (index, chain) in proto.filter_chains.iter().enumerate() {
            let read = ChainMatch::from_proto(chain.filter_chain_match.as_ref())
                .within("filter_chain_match")
                .and_then(|matching| Ok((matching, FilterChain::from_proto(chain, extensions)?)));
            let (matching, chain) = read.within_index("filter_chains", index)?;
            matches.push(matching);
            chains.push(Arc::new(chain));
        }
        let default = proto.default_filter_chain.as_ref();
        let default = default.map(|chain| FilterChain::from_proto(chain, extensions));
        let default = default.transpose().within("default_filter_chain")?;
        Ok(Self {
            address: address.into(),
            port,
            chains: FilterChains::new(chains, &matches, default.map(Arc::new))?,
        })
    }
}

fn socket_address(proto: Option<&Address>) -> Result<(&str, u16), Invalid> {
    let Some(AddressKind::SocketAddress(socket)) = proto.and_then(|proto| proto.address.as_ref())
    else {
        return Err(Invalid::new("must be a socket_address"));
    };
    let read = || {
        if socket.protocol != Protocol::Tcp as i32 {
            return Err(Invalid::new("must be TCP").at("protocol"));
        }
        let port = match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) => u16::try_from(port).ok(),
            _ => None,
        };
        let port = port.ok_or_else(|| Invalid::new("must be from 0 to 65535").at("port_value"))?;
        Ok((socket.address.as_str(), port))
    };
    read().within("socket_address")
}
