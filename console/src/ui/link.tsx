// Links. `Link` goes to a page of the console (paths are without /console); `ExternalLink` leaves it.
import type { AnchorHTMLAttributes, ReactNode } from 'react';
import { Link as RouterLink } from 'wouter';

interface Props extends Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'className' | 'href'> {
  href: string;
  className?: string;
  children: ReactNode;
}

export function Link({ href, ...rest }: Props) {
  return <RouterLink href={href} {...rest} />;
}

export function ExternalLink({ href, children, ...rest }: Props) {
  return (
    <a href={href} target="_blank" rel="noopener noreferrer" {...rest}>
      {children}
    </a>
  );
}
