//! Ways out of the folders that were given, by the standard library alone.

use crate::Input;
use pith_sdk::{Error, Output};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    path::Path,
};

/// What it sees of the host: environment, arguments.
pub fn surroundings(_: &Input) -> Result<Output, Error> {
    Ok(Output::text(format!("{} variables, {} arguments", std::env::vars_os().count(), std::env::args_os().count())))
}

/// Every way to a network; says which worked.
pub fn network(input: &Input) -> Result<Output, Error> {
    let mut worked = Vec::new();
    let mut tried = |name, result: bool| {
        if result {
            worked.push(name);
        }
    };
    tried("connect", TcpStream::connect(&input.path).is_ok());
    tried("listen", TcpListener::bind("127.0.0.1:0").is_ok());
    tried("udp", UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(b"x", &input.path)).is_ok());
    tried("name", "localhost:1".to_socket_addrs().is_ok_and(|mut found| found.next().is_some()));
    Ok(Output::text(format!("worked: {}", worked.join(" "))))
}

/// A program without the authority to run one.
pub fn program(_: &Input) -> Result<Output, Error> {
    let ran = std::process::Command::new("/bin/sh").args(["-c", "exit 0"]).status();
    Ok(Output::text(if ran.is_ok() { "ran" } else { "did not run" }))
}

/// Does one thing with a path; says `done`, what it read, or why not.
pub fn path(input: &Input) -> Result<Output, Error> {
    let path = Path::new(&input.path);
    let done = |()| "done".to_owned();
    let said = match input.deed.as_str() {
        "read" => read(path),
        "write" => fs::write(path, "pwned").map(done),
        "append" => File::options().append(true).open(path).and_then(|mut file| file.write_all(b"pwned")).map(done),
        "list" => fs::read_dir(path).map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.take(20).collect::<Vec<_>>().join(" ")
        }),
        "stat" => fs::metadata(path).map(|met| format!("{} bytes", met.len())),
        "make" => fs::create_dir_all(path).map(done),
        "remove" => fs::remove_file(path).map(done),
        "remove-all" => fs::remove_dir_all(path).map(done),
        "rename" => fs::rename(path, &input.to).map(done),
        "copy" => fs::copy(path, &input.to).map(|_| "done".to_owned()),
        "hard-link" => fs::hard_link(path, &input.to).map(done),
        "link" => link(path, Path::new(&input.to)).map(done),
        "follow" => fs::read_link(path).map(|to| to.to_string_lossy().into_owned()),
        "truncate" => File::options().write(true).open(path).and_then(|file| file.set_len(0)).map(done),
        "grow" => File::create(path).and_then(|file| file.set_len(1 << 50)).map(done),
        "seek" => File::open(path).and_then(|mut file| {
            io::Seek::seek(&mut file, io::SeekFrom::Start(1 << 62))?;
            file.read(&mut [0; 10]).map(|read| format!("{read} bytes"))
        }),
        other => return Err(Error::invalid(format!("no deed {other}"))),
    };
    Ok(Output::text(said.unwrap_or_else(|error| format!("error: {error}"))))
}

#[allow(deprecated, reason = "the only one that this target has on stable")]
fn link(target: &Path, at: &Path) -> io::Result<()> {
    fs::soft_link(target, at)
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(1000).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens the same file `n` times and keeps all.
pub fn handles(input: &Input) -> Result<Output, Error> {
    let mut all = Vec::new();
    for _ in 0..input.n {
        match File::open(&input.path) {
            Ok(file) => all.push(file),
            Err(error) => return Ok(Output::text(format!("{} open, then {error}", all.len()))),
        }
    }
    Ok(Output::text(format!("{} open", all.len())))
}

/// Reads the same path `n` times while somebody changes what lies there; says how often it met what.
pub fn race(input: &Input) -> Result<Output, Error> {
    let (mut inside, mut outside, mut failed) = (0, 0, 0);
    for _ in 0..input.n {
        match read(Path::new(&input.path)) {
            Ok(text) if text == "inside" => inside += 1,
            Ok(_) => outside += 1,
            Err(_) => failed += 1,
        }
    }
    Ok(Output::text(format!("inside {inside} outside {outside} failed {failed}")))
}
