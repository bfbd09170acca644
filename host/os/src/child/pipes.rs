//! The pipes between host and child.

use std::future::pending;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::process::CHUNK_BYTES;

#[derive(Clone, Copy)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) reader: pipe::Receiver,
    pub(super) buffer: Box<[u8]>,
}

impl Pipe {
    pub(super) fn new(reader: PipeReader) -> io::Result<Self> {
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok(Self { reader, buffer: vec![0; CHUNK_BYTES].into_boxed_slice() })
    }
}

/// Both are asked in turn by chance: a flood on one does not starve the other.
pub(super) async fn read_either(stdout: &mut Option<Pipe>, stderr: &mut Option<Pipe>) -> (Stream, io::Result<usize>) {
    tokio::select! {
        read = read(stdout) => (Stream::Stdout, read),
        read = read(stderr) => (Stream::Stderr, read),
    }
}

async fn read(pipe: &mut Option<Pipe>) -> io::Result<usize> {
    match pipe {
        Some(pipe) => pipe.reader.read(&mut pipe.buffer).await,
        None => pending().await,
    }
}

pub(super) async fn feed(stdin: &Option<pipe::Sender>, bytes: &[u8]) -> io::Result<usize> {
    let Some(stdin) = stdin else { return pending().await };
    loop {
        stdin.writable().await?;
        match stdin.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            answer => return answer,
        }
    }
}
