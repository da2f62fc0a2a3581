//! A proxy between a client and its control plane that counts bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Forwards connections for as long as the process lives.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    asked: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Proxy {
    /// Starts a proxy for this address.
    pub(super) fn start(to: &str) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let proxy = Self {
            address: listener.local_addr().map_err(|e| e.to_string())?,
            asked: Arc::default(),
            answered: Arc::default(),
        };
        let (to, asked, answered) = (
            to.to_owned(),
            Arc::clone(&proxy.asked),
            Arc::clone(&proxy.answered),
        );
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The client notices a failed connection.
                let Ok(server) = TcpStream::connect(&to) else {
                    continue;
                };
                let _ = forward(&client, &server, &asked);
                let _ = forward(&server, &client, &answered);
            }
        });
        Ok(proxy)
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Bytes from the client.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Bytes to the client.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

/// One direction, on a thread of its own.
fn forward(from: &TcpStream, to: &TcpStream, count: &Arc<AtomicU64>) -> std::io::Result<()> {
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
