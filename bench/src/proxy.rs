//! A proxy between clients and servers: it counts bytes, spreads connections, and is the network that a scenario cuts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Forwards connections for as long as the process lives.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    requested: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
    link: Mutex<Link>,
}

#[derive(Debug, Default)]
struct Link {
    is_cut: bool,
    /// Both ends of all connections.
    sockets: Vec<TcpStream>,
    /// When the first connection was forwarded since the proxy was cut.
    first: Option<Instant>,
}

impl Proxy {
    /// Starts a proxy for these servers: a connection goes to the next one in turn that accepts it.
    pub(crate) fn start(servers: &[&str]) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let proxy = Self {
            address: listener.local_addr().map_err(|e| e.to_string())?,
            shared: Arc::default(),
        };
        let shared = Arc::clone(&proxy.shared);
        if servers.is_empty() {
            return Err("a proxy without servers".to_owned());
        }
        let mut servers: Vec<_> = servers.iter().map(|&server| server.to_owned()).collect();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.lock().is_cut {
                    continue;
                }
                let server = servers.iter().find_map(|to| TcpStream::connect(to).ok());
                servers.rotate_left(1);
                // The client notices a failed connection.
                if let Some(server) = server {
                    let _ = shared.forward(&client, &server);
                }
            }
        });
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Bytes from the client.
    pub(crate) fn requested(&self) -> u64 {
        self.shared.requested.load(Ordering::Relaxed)
    }

    /// Bytes to the client.
    pub(crate) fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Ends all connections, and those that come.
    pub(crate) fn cut(&self) {
        let mut state = self.shared.lock();
        state.is_cut = true;
        state.first = None;
        for socket in state.sockets.drain(..) {
            // It may have ended.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Forwards connections again.
    pub(crate) fn restore(&self) {
        self.shared.lock().is_cut = false;
    }

    /// When the first connection was forwarded since the proxy was cut.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.shared.lock().first
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forward(&self, client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
        {
            let mut state = self.lock();
            if state.is_cut {
                return Ok(());
            }
            state.sockets.push(client.try_clone()?);
            state.sockets.push(server.try_clone()?);
            state.first.get_or_insert_with(Instant::now);
        }
        one_way(client, server, &self.requested)?;
        one_way(server, client, &self.answered)
    }
}

/// One direction, on a thread of its own.
fn one_way(from: &TcpStream, to: &TcpStream, count: &Arc<AtomicU64>) -> std::io::Result<()> {
    let (mut from, mut to, count) = (from.try_clone()?, to.try_clone()?, Arc::clone(count));
    to.set_nodelay(true)?;
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            count.fetch_add(length as u64, Ordering::Relaxed);
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends one byte on each connection and keeps it open.
    fn server(byte: u8) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for mut client in listener.incoming().map_while(Result::ok) {
                client.write_all(&[byte]).unwrap();
                open.push(client);
            }
        });
        address
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        TcpStream::connect(proxy.address()).unwrap()
    }

    fn read(mut client: &TcpStream) -> Option<u8> {
        let mut byte = [0];
        client.read_exact(&mut byte).ok().map(|()| byte[0])
    }

    #[test]
    fn gb5_connections_go_to_the_servers_in_turn() {
        let (first, second) = (server(1), server(2));
        let proxy = Proxy::start(&[&first, &second]).unwrap();
        let bytes = [(); 3].map(|()| read(&connect(&proxy)));
        assert_eq!(bytes, [Some(1), Some(2), Some(1)]);
        assert!(Proxy::start(&[]).is_err());
    }

    #[test]
    fn gb12_cut_proxy_ends_all_connections_until_restored() {
        let proxy = Proxy::start(&[&server(1)]).unwrap();
        let before = connect(&proxy);
        assert_eq!(read(&before), Some(1));
        proxy.cut();
        assert_eq!(read(&before), None);
        assert_eq!(read(&connect(&proxy)), None);
        assert!(proxy.first().is_none());
        proxy.restore();
        assert_eq!(read(&connect(&proxy)), Some(1));
        assert!(proxy.first().is_some());
    }
}
