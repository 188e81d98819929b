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
