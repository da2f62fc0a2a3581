//! A listener in use: its filter chains, with the routes that their connections follow.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use oxds_client::Bootstrap;
#[cfg(feature = "tls")]
use oxds_client::certificates::ServerTls;
use oxds_core::resolve::{ChainRoutes, ServerConfig};
use oxds_core::resource::{FilterChain, Listener};
use tokio::sync::watch;

/// A listener in use. Dropping it drains its connections, too.
#[derive(Debug)]
pub(crate) struct Serving {
    generation: u64,
    listener: Arc<Listener>,
    chains: Vec<Arc<Chain>>,
    drain: watch::Sender<bool>,
}

/// A filter chain in use, which its connections share. When its listener is replaced, it stays as it was.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) routes: ArcSwap<ChainRoutes>,
    pub(crate) security: ChainSecurity,
}

/// Security of the connections of a chain.
#[derive(Debug)]
pub(crate) enum ChainSecurity {
    /// The control plane configures none: the fallback of the credentials.
    Fallback,
    #[cfg(feature = "tls")]
    Tls(Arc<ServerTls>),
    /// TLS, in a program without TLS. No connection is accepted.
    #[cfg(not(feature = "tls"))]
    Unsupported,
}

impl ChainSecurity {
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "certificates are for TLS")
    )]
    fn new(chain: &FilterChain, bootstrap: &Bootstrap) -> Self {
        match &chain.tls {
            None => Self::Fallback,
            #[cfg(feature = "tls")]
            Some(tls) => Self::Tls(ServerTls::shared(tls, bootstrap.certificate_providers())),
            #[cfg(not(feature = "tls"))]
            Some(_) => Self::Unsupported,
        }
    }
}

/// Whether connections must drain.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Receiver<bool>);

impl Serving {
    pub(crate) fn new(config: &ServerConfig, bootstrap: &Bootstrap) -> Self {
        let socket = config.listener.socket.iter();
        let chains = socket.flat_map(|socket| socket.chains.all());
        let chains = chains.zip(&config.routes).map(|(chain, routes)| {
            Arc::new(Chain {
                routes: ArcSwap::from_pointee(routes.clone()),
                security: ChainSecurity::new(chain, bootstrap),
            })
        });
        Self {
            generation: config.generation,
            listener: Arc::clone(&config.listener),
            chains: chains.collect(),
            drain: watch::Sender::new(false),
        }
    }

    /// Uses the routes of a configuration. Returns false if it has another listener.
    pub(crate) fn update(&self, config: &ServerConfig) -> bool {
        if self.generation != config.generation {
            return false;
        }
        for (chain, routes) in self.chains.iter().zip(&config.routes) {
            let is_same = match (&**chain.routes.load(), routes) {
                (Ok(before), Ok(after)) => Arc::ptr_eq(before, after),
                (Err(before), Err(after)) => before == after,
                _ => false,
            };
            if !is_same {
                chain.routes.store(Arc::new(routes.clone()));
            }
        }
        true
    }

    /// Returns the filter chain of a connection, or `None` if none matches it.
    pub(crate) fn chain(&self, local: SocketAddr, peer: SocketAddr) -> Option<&Arc<Chain>> {
        let chains = &self.listener.socket.as_ref()?.chains;
        self.chains.get(chains.of_connection(local.ip(), peer)?)
    }

    pub(crate) fn draining(&self) -> Drain {
        Drain(self.drain.subscribe())
    }

    /// Makes its connections drain.
    pub(crate) fn drain(&self) {
        self.drain.send_replace(true);
    }
}

impl Drain {
    /// Waits until connections must drain; cancel-safe.
    pub(crate) async fn started(&mut self) {
        // An error means that the listener is gone.
        let _ = self.0.wait_for(|drain| *drain).await;
    }
}
