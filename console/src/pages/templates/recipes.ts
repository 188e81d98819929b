// Dockerfiles of ours: templates that are one press away. Packages are those of Debian 12, PyPI and npm.

export type Category = 'languages' | 'web' | 'data' | 'documents' | 'agents';

export const CATEGORIES: readonly Category[] = ['languages', 'web', 'data', 'documents', 'agents'];

export interface Recipe {
  /** Also the alias of the template that it builds. */
  name: string;
  /** Two or three letters. */
  glyph: string;
  category: Category;
  /** What is in it. */
  text: string;
  dockerfile: string;
  /** Where the default is too small for the build or its use, MiB. */
  memoryMB?: number;
}

/** Packages of Debian, without their lists in the result. */
const apt = (...packages: string[]) => `RUN apt-get update \\
 && apt-get install -y --no-install-recommends \\
      ${packages.join(' \\\n      ')} \\
 && rm -rf /var/lib/apt/lists/*`;

const pip = (...packages: string[]) => `RUN pip install --no-cache-dir \\
      ${packages.join(' \\\n      ')}`;

const npm = (...packages: string[]) => `RUN npm install -g \\
      ${packages.join(' \\\n      ')} \\
 && npm cache clean --force`;

const END = `USER user
WORKDIR /home/user`;

const file = (...parts: string[]) => `${['FROM base', ...parts, END].join('\n\n')}\n`;

export const RECIPES: readonly Recipe[] = [
  {
    name: 'rust',
    glyph: 'rs',
    category: 'languages',
    text: 'Rust 1.63, cargo, clippy, rustfmt and the linker mold',
    dockerfile: file(
      apt('rustc', 'cargo', 'rustfmt', 'rust-clippy', 'mold', 'pkg-config', 'libssl-dev'),
      '# Linking takes most of the time of small changes: mold is several times faster.\nENV RUSTFLAGS="-C link-arg=-fuse-ld=mold"',
    ),
    memoryMB: 2048,
  },
  {
    name: 'go',
    glyph: 'go',
    category: 'languages',
    text: 'Go 1.19, its language server and the debugger delve',
    dockerfile: file(
      apt('golang-go', 'gopls', 'delve'),
      '# What `go install` builds is found by name.\nENV GOPATH=/home/user/go\n' +
        'ENV PATH=/home/user/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    ),
  },
  {
    name: 'java',
    glyph: 'jv',
    category: 'languages',
    text: 'OpenJDK 17 and Maven',
    dockerfile: file(
      apt('openjdk-17-jdk-headless', 'maven'),
      '# The same directory on every processor.\nRUN ln -s /usr/lib/jvm/java-17-openjdk-* /usr/lib/jvm/default-jdk\n' +
        'ENV JAVA_HOME=/usr/lib/jvm/default-jdk',
    ),
    memoryMB: 2048,
  },
  {
    name: 'cpp',
    glyph: 'c++',
    category: 'languages',
    text: 'GCC, Clang 14, CMake, Ninja, gdb, valgrind and ccache',
    dockerfile: file(
      apt('build-essential', 'clang', 'cmake', 'ninja-build', 'gdb', 'valgrind', 'ccache'),
      'ENV CMAKE_GENERATOR=Ninja\nENV CMAKE_C_COMPILER_LAUNCHER=ccache\nENV CMAKE_CXX_COMPILER_LAUNCHER=ccache',
    ),
  },
  {
    name: 'node-web',
    glyph: 'web',
    category: 'web',
    text: 'Node 24, TypeScript, Vite, pnpm and tsx',
    dockerfile: file(npm('typescript', 'vite', 'pnpm', 'tsx')),
  },
  {
    name: 'python-web',
    glyph: 'api',
    category: 'web',
    text: 'FastAPI, Flask and Django, uvicorn, SQLAlchemy and SQLite',
    dockerfile: file(pip('fastapi', 'uvicorn', 'flask', 'django', 'sqlalchemy', 'jinja2', 'httpx')),
  },
  {
    name: 'scraping',
    glyph: 'scr',
    category: 'web',
    text: 'httpx, Beautiful Soup, lxml, selectolax, trafilatura and feedparser: pages without a browser',
    dockerfile: file(pip('httpx[http2]', 'beautifulsoup4', 'lxml', 'selectolax', 'trafilatura', 'feedparser')),
  },
  {
    name: 'python-data',
    glyph: 'df',
    category: 'data',
    text: 'pandas, polars, DuckDB, pyarrow, scikit-learn, matplotlib and a Jupyter kernel',
    dockerfile: file(
      pip(
        'numpy',
        'pandas',
        'polars',
        'duckdb',
        'pyarrow',
        'scikit-learn',
        'matplotlib',
        'seaborn',
        'openpyxl',
        'ipykernel',
      ),
      '# There is no screen: plots go to files.\nENV MPLBACKEND=Agg',
    ),
    memoryMB: 2048,
  },
  {
    name: 'r-stats',
    glyph: 'r',
    category: 'data',
    text: 'R 4.2 with the tidyverse',
    dockerfile: file(apt('r-base', 'r-cran-tidyverse')),
    memoryMB: 2048,
  },
  {
    name: 'postgres-tools',
    glyph: 'sql',
    category: 'data',
    text: 'psql and pg_dump 15, pgcli, and psycopg for Python',
    dockerfile: file(apt('postgresql-client', 'pgcli'), pip('psycopg[binary]', 'sqlalchemy')),
  },
  {
    name: 'latex',
    glyph: 'tex',
    category: 'documents',
    text: 'LaTeX and XeTeX with the usual packages, latexmk, biber and pandoc',
    dockerfile: file(
      apt(
        'texlive-latex-recommended',
        'texlive-latex-extra',
        'texlive-fonts-recommended',
        'texlive-xetex',
        'lmodern',
        'latexmk',
        'biber',
        'pandoc',
      ),
    ),
  },
  {
    name: 'media',
    glyph: 'av',
    category: 'documents',
    text: 'ffmpeg, ImageMagick, libvips, Poppler for PDF, and Pillow',
    dockerfile: file(apt('ffmpeg', 'imagemagick', 'libvips-tools', 'poppler-utils'), pip('pillow', 'pypdf')),
  },
  {
    name: 'coding-agent',
    glyph: 'ag',
    category: 'agents',
    text: 'gh, git-lfs, fd, tmux, ctags, ShellCheck, ruff, pytest and TypeScript beside git and ripgrep',
    dockerfile: file(
      apt('fd-find', 'gh', 'git-lfs', 'shellcheck', 'tmux', 'universal-ctags'),
      "# Debian's name for fd is fdfind.\nRUN ln -s /usr/bin/fdfind /usr/local/bin/fd",
      pip('ruff', 'pytest', 'mypy'),
      npm('typescript', 'tsx', 'prettier'),
    ),
  },
];
