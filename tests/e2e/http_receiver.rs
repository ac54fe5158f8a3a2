//! A local HTTP server that receives JSON in POST requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::Value;

/// A received request.
pub struct ReceivedRequest {
    pub head: String,
    pub body: Value,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Starts a server that responds with each of these statuses in turn, and afterwards always with the last
/// one.
pub fn start_http_receiver(answers: &'static [u16]) -> (String, Receiver<ReceivedRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (send, letters) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            if reader.read_exact(&mut body).is_err() {
                continue;
            }
            let status = answers.get(number).or(answers.last()).unwrap();
            let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = reader.into_inner().write_all(answer.as_bytes());
            if send.send(ReceivedRequest { head, body: serde_json::from_slice(&body).unwrap() }).is_err() {
                return;
            }
        }
    });
    (address, letters)
}
