//! Proxy between clients and a server that injects network faults: it cuts connections, or delivers bytes late.
//!
//! The proxy always reads, even while it holds bytes back. For the sender, the network has therefore accepted
//! the bytes, as if they were still on their way.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Size of a read.
const READ_BYTES: usize = 64 << 10;
/// Time limit of waits. Only a hang exceeds it.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Server behind a proxy.
#[derive(Clone, Debug)]
pub enum ServerAddress {
    /// Address and port.
    Tcp(SocketAddr),
    /// Address and port, for clients that first send a `CONNECT` request. The requested host is ignored.
    Tunnel(SocketAddr),
    /// Path of a socket.
    Unix(PathBuf),
}

/// Direction of the bytes on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Responses.
    ToClient,
}

/// Proxy on the loopback interface. Runs until the process exits.
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
}

struct ProxyState {
    server: Mutex<ServerAddress>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// True for each direction in which bytes are held back.
    is_held: [bool; 2],
    is_cut: bool,
    /// Received bytes that the proxy hasn't forwarded yet.
    pending: [usize; 2],
    connections: BTreeMap<u64, Connection>,
    connection_count: u64,
}

/// Both ends of a connection.
struct Connection {
    client: Stream,
    server: Stream,
    /// Number of directions that haven't ended.
    open_directions: usize,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl TcpProxy {
    /// Starts a proxy to a server.
    pub fn start(server: ServerAddress) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(ProxyState { server: Mutex::new(server), state, changed });
        let proxy = Self { address: listener.local_addr().unwrap(), shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                // If the server is down, the client observes a connection that closes at once.
                thread::spawn(move || drop(accept(&shared, client)));
            }
        });
        proxy
    }

    /// Returns the proxy's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects all later clients to another server.
    pub fn set_server(&self, server: ServerAddress) {
        *self.shared.server.lock().unwrap() = server;
    }

    /// Holds back all bytes in a direction until [`release`](Self::release). A client that disconnects or dies
    /// in the meantime looks as if its machine had lost power: the server isn't notified.
    pub fn hold(&self, direction: Direction) {
        self.shared.lock().is_held[direction as usize] = true;
    }

    /// Waits until at least this number of bytes are held in a direction.
    pub fn wait_for_held_bytes(&self, direction: Direction, minimum: usize) {
        let is_below = |state: &mut State| state.pending[direction as usize] < minimum;
        let (_state, waited) =
            self.shared.changed.wait_timeout_while(self.shared.lock(), TIMEOUT, is_below).unwrap();
        assert!(!waited.timed_out(), "the sender does not send {minimum} bytes");
    }

    /// Closes all connections, and each new one, until [`release`](Self::release).
    pub fn cut(&self) {
        self.shared.lock().is_cut = true;
        self.disconnect();
    }

    /// Ends all faults. Returns the number of held bytes after delivering them.
    pub fn release(&self) -> usize {
        let mut state = self.shared.lock();
        (state.is_held, state.is_cut) = ([false; 2], false);
        let held = state.pending.iter().sum();
        self.shared.changed.notify_all();
        let is_pending = |state: &mut State| state.pending != [0; 2];
        let (_state, waited) = self.shared.changed.wait_timeout_while(state, TIMEOUT, is_pending).unwrap();
        assert!(!waited.timed_out(), "the receiver does not read");
        held
    }

    /// Closes all connections.
    pub fn disconnect(&self) {
        let closed = std::mem::take(&mut self.shared.lock().connections);
        for Connection { client, server, .. } in closed.into_values() {
            client.shutdown(Shutdown::Both);
            server.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
    }
}

fn accept(shared: &Arc<ProxyState>, mut client: TcpStream) -> io::Result<()> {
    if shared.lock().is_cut {
        return Ok(());
    }
    let address = shared.server.lock().unwrap().clone();
    let server = match address {
        ServerAddress::Tcp(address) => Stream::Tcp(TcpStream::connect(address)?),
        ServerAddress::Tunnel(address) => {
            answer_connect(&mut client)?;
            Stream::Tcp(TcpStream::connect(address)?)
        }
        ServerAddress::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
    };
    let client = Stream::Tcp(client);
    client.send_immediately()?;
    server.send_immediately()?;
    let pumps = [
        (Direction::ToServer, client.try_clone()?, server.try_clone()?),
        (Direction::ToClient, server.try_clone()?, client.try_clone()?),
    ];
    let id = {
        let mut state = shared.lock();
        state.connection_count += 1;
        let id = state.connection_count;
        state.connections.insert(id, Connection { client, server, open_directions: pumps.len() });
        id
    };
    for (direction, from, to) in pumps {
        let (send, receive) = mpsc::channel();
        let (reader, writer) = (Arc::clone(shared), Arc::clone(shared));
        thread::spawn(move || reader.receive(direction, from, &send));
        thread::spawn(move || writer.forward(id, direction, to, &receive));
    }
    Ok(())
}

/// Reads a `CONNECT` request and accepts it.
fn answer_connect(client: &mut TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")
}

impl ProxyState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Reads everything from a stream. An empty message marks its end.
    fn receive(&self, direction: Direction, mut from: Stream, queue: &Sender<Vec<u8>>) {
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            self.lock().pending[direction as usize] += read;
            self.changed.notify_all();
            // The writer reads the queue until the end.
            queue.send(buffer[..read].to_vec()).unwrap();
        }
        if !self.lock().is_held[direction as usize] {
            queue.send(Vec::new()).unwrap();
        }
    }

    /// Forwards the messages of a queue, except while the direction is held.
    fn forward(&self, id: u64, direction: Direction, mut to: Stream, queue: &Receiver<Vec<u8>>) {
        for message in queue {
            let is_held =
                |state: &mut State| state.is_held[direction as usize] && state.connections.contains_key(&id);
            let state = self.changed.wait_while(self.lock(), is_held).unwrap();
            let is_open = state.connections.contains_key(&id);
            drop(state);
            if message.is_empty() {
                to.shutdown(Shutdown::Write);
                self.end_direction(id);
                continue;
            }
            // A write to a closed connection fails, and the bytes are lost.
            if is_open {
                let _ = to.write_all(&message);
            }
            self.lock().pending[direction as usize] -= message.len();
            self.changed.notify_all();
        }
    }

    /// Forgets a connection when both directions have ended.
    fn end_direction(&self, id: u64) {
        let mut state = self.lock();
        let Some(connection) = state.connections.get_mut(&id) else { return };
        connection.open_directions -= 1;
        if connection.open_directions == 0 {
            state.connections.remove(&id);
        }
    }
}

impl Stream {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    fn send_immediately(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    /// Ignores errors: the other end may already have closed the connection.
    fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;

    use super::*;

    /// Starts a server that reads one line of each connection, and reports it.
    fn start_server() -> (TcpProxy, Receiver<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = TcpProxy::start(ServerAddress::Tcp(listener.local_addr().unwrap()));
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let send = send.clone();
                thread::spawn(move || {
                    let mut line = String::new();
                    let _ = io::BufReader::new(stream).read_line(&mut line);
                    send.send(line)
                });
            }
        });
        (proxy, receive)
    }

    #[test]
    fn a_held_request_arrives_after_the_death_of_its_client() {
        let (proxy, lines) = start_server();
        proxy.hold(Direction::ToServer);
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.write_all(b"late\n").unwrap();
        drop(client);
        proxy.wait_for_held_bytes(Direction::ToServer, 5);
        assert!(lines.try_recv().is_err(), "nothing arrives while the bytes are held");
        proxy.release();
        assert_eq!(lines.recv().unwrap(), "late\n");
    }

    #[test]
    fn a_cut_closes_open_and_new_connections() {
        let (proxy, lines) = start_server();
        let mut open = TcpStream::connect(proxy.address()).unwrap();
        let mut buffer = [0; 1];
        proxy.cut();
        assert!(matches!(open.read(&mut buffer), Ok(0) | Err(_)));
        let mut new = TcpStream::connect(proxy.address()).unwrap();
        assert!(matches!(new.read(&mut buffer), Ok(0) | Err(_)));
        proxy.release();
        TcpStream::connect(proxy.address()).unwrap().write_all(b"again\n").unwrap();
        let again = lines.iter().find(|line| !line.is_empty());
        assert_eq!(again.as_deref(), Some("again\n"));
    }
}
